-- Secondary indexes of companies; as those of contacts.
CREATE INDEX IF NOT EXISTS companies_by_created_at ON companies (created_at, id);
CREATE INDEX IF NOT EXISTS companies_by_updated_at ON companies (updated_at, id);
CREATE INDEX IF NOT EXISTS companies_by_owner ON companies (owner_id);
CREATE INDEX IF NOT EXISTS companies_by_last_interaction_at ON companies (last_interaction_at);
