WITH old AS (SELECT c.oid, c.relowner, c.relacl, format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2)
SELECT '1 grant', coalesce(r.rolname::text, 'public'), '',
    format('GRANT %s ON TABLE %s TO %s%s', g.privilege_type, old.name,
        CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END,
        CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM old CROSS JOIN LATERAL aclexplode(old.relacl) AS g LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = g.grantee
WHERE g.grantee <> old.relowner
UNION ALL SELECT '1 grant', coalesce(r.rolname::text, 'public'), '',
    format('GRANT %s (%I) ON TABLE %s TO %s', g.privilege_type, a.attname, old.name,
        CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END)
FROM old JOIN pg_catalog.pg_attribute AS a ON a.attrelid = old.oid AND NOT a.attisdropped
CROSS JOIN LATERAL aclexplode(a.attacl) AS g LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = g.grantee
UNION ALL SELECT '2 constraint', k.conname::text,
    format('ALTER TABLE %s DROP CONSTRAINT %I', old.name, k.conname),
    format('ALTER TABLE %s ADD CONSTRAINT %I %s', old.name, k.conname, pg_get_constraintdef(k.oid))
FROM old JOIN pg_catalog.pg_constraint AS k ON k.conrelid = old.oid WHERE k.contype IN ('c', 'u', 'x', 'f')
UNION ALL SELECT '3 index', i.relname::text, format('DROP INDEX %I.%I', $1::text, i.relname), pg_get_indexdef(i.oid)
FROM old JOIN pg_catalog.pg_index AS x ON x.indrelid = old.oid JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint AS k WHERE k.conindid = i.oid AND k.conrelid = old.oid)
  AND NOT (i.relname = ANY($3))
UNION ALL SELECT '4 reference', format('%I.%I', n.nspname, c.relname),
    format('ALTER TABLE %I.%I DROP CONSTRAINT %I', n.nspname, c.relname, k.conname),
    format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', n.nspname, c.relname, k.conname, pg_get_constraintdef(k.oid))
FROM old JOIN pg_catalog.pg_constraint AS k ON k.confrelid = old.oid AND k.contype = 'f' AND k.conrelid <> old.oid
JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
UNION ALL SELECT '5 trigger', t.tgname::text, '', pg_get_triggerdef(t.oid)
FROM old JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = old.oid WHERE NOT t.tgisinternal
UNION ALL SELECT DISTINCT '6 view', format('%I.%I', n.nspname, v.relname), '',
    format('CREATE OR REPLACE VIEW %I.%I%s AS %s', n.nspname, v.relname,
        ' WITH (' || array_to_string(v.reloptions, ', ') || ')', pg_get_viewdef(v.oid))
FROM old JOIN pg_catalog.pg_depend AS d ON d.refobjid = old.oid
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
    AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
JOIN pg_catalog.pg_rewrite AS w ON w.oid = d.objid
JOIN pg_catalog.pg_class AS v ON v.oid = w.ev_class AND v.relkind = 'v'
JOIN pg_catalog.pg_namespace AS n ON n.oid = v.relnamespace ORDER BY 1, 2
