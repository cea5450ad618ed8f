"""How the work is cut: parallel degrees, the software's features, the split into stages, the device mesh, the rules."""
