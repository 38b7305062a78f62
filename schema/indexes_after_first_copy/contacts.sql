-- Secondary indexes of contacts. A first copy is written without them and builds them once after its lists; from then
-- on they are kept page by page. Each line can run again.
CREATE INDEX IF NOT EXISTS contacts_by_created_at ON contacts (created_at, id);
CREATE INDEX IF NOT EXISTS contacts_by_updated_at ON contacts (updated_at, id);
CREATE INDEX IF NOT EXISTS contacts_by_owner ON contacts (owner_id);
CREATE INDEX IF NOT EXISTS contacts_by_company ON contacts (company_id);
CREATE INDEX IF NOT EXISTS contacts_by_email ON contacts (email);
CREATE INDEX IF NOT EXISTS contacts_by_last_interaction_at ON contacts (last_interaction_at);
