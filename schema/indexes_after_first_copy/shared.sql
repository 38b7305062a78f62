-- Indexes of what is kept about contacts and companies in one table; made when the first of both is copied.
CREATE INDEX IF NOT EXISTS changes_by_record ON changes (record_id, object_type, seq);
CREATE INDEX IF NOT EXISTS custom_multi_values_by_value ON custom_multi_values (object_type, field_key, value);
CREATE UNIQUE INDEX IF NOT EXISTS search_documents_by_record ON search_documents (is_company, record_id);
CREATE INDEX IF NOT EXISTS changes_by_time ON changes (object_type, seen_at);
