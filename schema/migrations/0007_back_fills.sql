-- Records that a back-fill under way has read: those that have a value here and are not among them at its end may have lost
-- it.
CREATE TABLE filled_records (
    object_type TEXT NOT NULL, -- contact or company
    id TEXT NOT NULL,
    PRIMARY KEY (object_type, id)
) STRICT, WITHOUT ROWID;
