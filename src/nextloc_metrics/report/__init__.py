"""An evaluation in one call, of predictions or of days; models side by side.

Arrays or files come in, a `Result` goes out: tables, a card and the sections of a page. Its rooms
are `files` and `engines`. It imports all wings but `integrations` and `cli`.
Begin with `evaluate_rows.py`; `__init__.pyi` names what is public.
"""

from nextloc_metrics.core.lazy import import_when_asked

__getattr__, __dir__ = import_when_asked(__name__)
