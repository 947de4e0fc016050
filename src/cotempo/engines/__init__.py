"""Where clients run: `settings` names every engine and its options, `local` is the base of those on this machine."""
