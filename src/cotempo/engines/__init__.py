"""Where clients run: in this process, in a pool of processes, and (an extra) across organisations on Flower.

`settings` names every engine and its options; `local` is the base of those on this machine.
"""
