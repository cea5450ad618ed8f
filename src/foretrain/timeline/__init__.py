"""The types of waist 2: seconds, of which kind, exposed or hidden. No layers, heads or experts here."""
