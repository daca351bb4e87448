"""Parts that hold the images to a diffusion prior: by denoising between iterations, by guidance, by a penalty."""
