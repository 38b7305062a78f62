-- Who is in which tier? `tier` is a custom field, and a column like any other.
SELECT cf_tier AS tier, count(*) AS contacts, sum(cf_newsletter) AS newsletter
  FROM contacts_full GROUP BY cf_tier ORDER BY contacts DESC

-- What are the credit limits worth, to the last cent? (decimal_sum never rounds.)
SELECT cf_region AS region, count(*) AS companies,
  decimal_sum(cf_credit_limit) AS credit
  FROM companies_full GROUP BY cf_region ORDER BY region

-- Which companies have the most contacts that may be written to?
SELECT o.name AS company, o.hq_country AS country, count(*) AS contacts
  FROM contacts_full AS c JOIN companies_full AS o ON o.id = c.company_id
  WHERE c.do_not_contact = 0 GROUP BY o.id
  ORDER BY contacts DESC, company LIMIT 5

-- What changed since the first copy, field by field?
SELECT seq, object_type AS object, kind, f.key AS field,
  substr(json_extract(f.value, '$[0]'), 1, 18) AS old,
  substr(json_extract(f.value, '$[1]'), 1, 18) AS new
  FROM changes, json_each(fields) AS f
  WHERE kind = 'update' AND f.key NOT IN ('etag', 'updated_at')
  AND f.key NOT LIKE '%_num'
  ORDER BY seq, field LIMIT 10
