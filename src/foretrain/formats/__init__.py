"""Foreign file formats, one file each."""
