-- What another database does not have yet.

-- Contacts and companies that were written or removed since they were last published (`[publish]`), each once. Kept only
-- while the mirror is published; written in the transaction that changes the record.
CREATE TABLE unpublished (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- grows with every change of a record
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    erase INTEGER NOT NULL DEFAULT 0, -- 1: its history is to be erased as well
    UNIQUE (object_type, record_id)
) STRICT;
