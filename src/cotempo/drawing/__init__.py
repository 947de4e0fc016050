"""One style for all pictures, and pictures as SVG that fit light and dark pages, desks and phones."""
