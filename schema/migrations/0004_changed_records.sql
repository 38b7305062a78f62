-- Which records changed, for followers that need more than the feed says.

-- Contacts and companies that were written or removed, each once, with the number of its last change: also what is no
-- entry of `changes`, such as an etag or the first reading of a detail. Kept while the mirror is published or followed,
-- and written in the transaction that changes the record.
CREATE TABLE changed_records (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- grows with every change of a record
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    erase INTEGER NOT NULL DEFAULT 0, -- its entries of changes up to this one were erased; 0 for none
    UNIQUE (object_type, record_id)
) STRICT;
