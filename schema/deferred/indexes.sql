-- Secondary indexes. A first copy is written without them and builds them once after its lists; from then on they are
-- kept page by page. Each line can run again.
CREATE INDEX IF NOT EXISTS contacts_by_created_at ON contacts (created_at, id);
CREATE INDEX IF NOT EXISTS contacts_by_updated_at ON contacts (updated_at, id);
CREATE INDEX IF NOT EXISTS companies_by_created_at ON companies (created_at, id);
CREATE INDEX IF NOT EXISTS companies_by_updated_at ON companies (updated_at, id);
CREATE INDEX IF NOT EXISTS changes_by_record ON changes (object_type, record_id, seq);
