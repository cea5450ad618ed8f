"""Data about machines: chip, server, fabric, cluster, storage, reliability, site and software stack."""
