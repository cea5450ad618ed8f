"""Hugging Face files: ``config.json`` -> ``Model``, ``adapter_config.json`` -> ``Lora``.

What a key means and what its absence stands for follows the public model classes of Hugging Face Transformers, one function per
``model_type``. Whatever is not in the file is listed as inferred; a structure that ``Model`` cannot say exactly is refused by name.
"""

from foretrain.formats.hf.adapter import is_adapter, read_adapter
from foretrain.formats.hf.door import SUPPORTED, read

__all__ = ["SUPPORTED", "is_adapter", "read", "read_adapter"]
