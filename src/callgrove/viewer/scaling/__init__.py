"""How costs scale: measured series of a study, and the models fitted to them."""
