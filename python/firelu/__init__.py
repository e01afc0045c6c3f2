"""The operators behind StyleGAN-type and diffusion models."""
