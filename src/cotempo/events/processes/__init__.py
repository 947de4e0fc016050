"""Point processes of few parameters, and their federation."""
