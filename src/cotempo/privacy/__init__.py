"""What a run does so that messages tell less: its settings, and the secure sum."""
