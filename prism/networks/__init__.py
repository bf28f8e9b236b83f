"""Networks: each embeds and classifies float clips (N, C, T, H, W); `training` trains one, `build` makes them."""
