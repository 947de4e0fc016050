"""Networks of the series family: layers, the diffusion backbone, imputers, losses, training and sampling."""
