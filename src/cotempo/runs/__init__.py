"""An experiment, its run, the folder a run is kept in, and the progress people watch."""
