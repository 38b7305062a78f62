WITH old AS (SELECT c.oid, c.relnamespace, c.relowner, c.relacl, c.relreplident, format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2),
col AS (SELECT a.*, old.name, format('ALTER TABLE %s ALTER COLUMN %I ', old.name, a.attname) AS alter,
        pg_get_expr(d.adbin, d.adrelid) AS expr
    FROM old JOIN pg_catalog.pg_attribute AS a ON a.attrelid = old.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = old.oid AND d.adnum = a.attnum)
-- The columns are there with their values, and nothing else.
SELECT '0 default', attname::text, '', alter || 'SET DEFAULT ' || expr FROM col
WHERE expr IS NOT NULL AND attgenerated = ''
UNION ALL SELECT '0 expression', attname::text, '',
    format('ALTER TABLE %s DROP COLUMN %I, ADD COLUMN %I %s GENERATED ALWAYS AS (%s) %s',
        name, attname, attname, format_type(atttypid, atttypmod), expr,
        CASE attgenerated WHEN 's' THEN 'STORED' ELSE 'VIRTUAL' END)
FROM col WHERE attgenerated <> ''
-- Records that came since have no value of these columns yet.
UNION ALL SELECT '0 identity', attname::text, '',
    format('UPDATE %1$s AS t SET %2$I = s.value FROM (SELECT ctid, row_number() OVER ()
        + (SELECT coalesce(max(%2$I), 0) FROM %1$s) AS value FROM %1$s WHERE %2$I IS NULL) AS s WHERE t.ctid = s.ctid; ',
        name, attname)
    || alter || 'SET NOT NULL; '
    || alter || format('ADD GENERATED %s AS IDENTITY; ', CASE attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END)
    || format('SELECT setval(pg_get_serial_sequence(%L, %L), max(%I)) FROM %s', name, attname, attname, name)
FROM col WHERE attidentity <> ''
UNION ALL SELECT '0 NOT NULL', attname::text, '', CASE WHEN expr IS NULL THEN '' ELSE alter || 'SET DEFAULT ' || expr
    || format('; UPDATE %s SET %I = DEFAULT WHERE %I IS NULL; ', name, attname, attname) END
    || alter || 'SET NOT NULL' FROM col
WHERE attnotnull AND attidentity = '' AND attgenerated = ''
UNION ALL SELECT '0 sequence', format('%I.%I', n.nspname, s.relname), '',
    format('ALTER SEQUENCE %I.%I OWNED BY %s.%I', n.nspname, s.relname, col.name, col.attname)
FROM col JOIN pg_catalog.pg_depend AS d ON d.refobjid = col.attrelid AND d.refobjsubid = col.attnum AND d.deptype = 'a'
    AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
JOIN pg_catalog.pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
JOIN pg_catalog.pg_namespace AS n ON n.oid = s.relnamespace
UNION ALL SELECT '0 owner', r.rolname::text, '', format('ALTER TABLE %s OWNER TO %I', old.name, r.rolname)
FROM old JOIN pg_catalog.pg_roles AS r ON r.oid = old.relowner
-- The new table has the default privileges of its owner.
UNION ALL SELECT DISTINCT '0 revoke', coalesce(r.rolname::text, 'public'), '',
    format('REVOKE ALL ON TABLE %s FROM %s', old.name,
        CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END)
FROM old JOIN pg_catalog.pg_class AS new ON new.relname = $2 || '__reload' AND new.relnamespace = old.relnamespace
CROSS JOIN LATERAL aclexplode(new.relacl) AS g LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = g.grantee
WHERE g.grantee NOT IN (new.relowner, old.relowner)
UNION ALL SELECT '1 grant', format('%s%s to %s', g.privilege_type, ' (' || quote_ident(g.attname) || ')', coalesce(r.rolname::text, 'public')), '',
    format('GRANT %s%s ON TABLE %s TO %s%s', g.privilege_type, ' (' || quote_ident(g.attname) || ')', old.name,
        CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END,
        CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM old CROSS JOIN LATERAL (
    SELECT NULL::name AS attname, t.* FROM aclexplode(old.relacl) AS t
    UNION ALL SELECT a.attname, t.* FROM pg_catalog.pg_attribute AS a CROSS JOIN LATERAL aclexplode(a.attacl) AS t
    WHERE a.attrelid = old.oid AND NOT a.attisdropped
) AS g LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = g.grantee
WHERE g.grantee <> old.relowner
UNION ALL SELECT '2 constraint', k.conname::text,
    format('ALTER TABLE %s DROP CONSTRAINT %I', old.name, k.conname),
    format('ALTER TABLE %s ADD CONSTRAINT %I %s', old.name, k.conname, pg_get_constraintdef(k.oid))
FROM old JOIN pg_catalog.pg_constraint AS k ON k.conrelid = old.oid WHERE k.contype IN ('c', 'u', 'x', 'f')
UNION ALL SELECT '3 index', i.relname::text, format('DROP INDEX %I.%I', $1::text, i.relname), pg_get_indexdef(i.oid)
FROM old JOIN pg_catalog.pg_index AS x ON x.indrelid = old.oid JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint AS k WHERE k.conindid = i.oid AND k.conrelid = old.oid)
  AND (x.indisunique OR NOT replace(substring(pg_get_indexdef(i.oid) FROM ' USING (.*)$'), '"', '') = ANY($3))
UNION ALL SELECT '3 statistics', format('%I.%I', n.nspname, s.stxname),
    format('DROP STATISTICS %I.%I', n.nspname, s.stxname), pg_get_statisticsobjdef(s.oid)
FROM old JOIN pg_catalog.pg_statistic_ext AS s ON s.stxrelid = old.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = s.stxnamespace
UNION ALL SELECT '4 replica identity', coalesce(i.relname::text, old.relreplident::text), '',
    format('ALTER TABLE %s REPLICA IDENTITY %s', old.name, CASE WHEN old.relreplident = 'f' THEN 'FULL' WHEN old.relreplident = 'n' OR i.relname IS NULL THEN 'NOTHING'
        ELSE format('USING INDEX %I', i.relname) END)
FROM old LEFT JOIN pg_catalog.pg_index AS x ON x.indrelid = old.oid AND x.indisreplident
LEFT JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid WHERE old.relreplident <> 'd'
UNION ALL SELECT '4 reference', format('%I of %I.%I', k.conname, n.nspname, c.relname),
    format('ALTER TABLE %I.%I DROP CONSTRAINT %I', n.nspname, c.relname, k.conname),
    format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', n.nspname, c.relname, k.conname, pg_get_constraintdef(k.oid))
FROM old JOIN pg_catalog.pg_constraint AS k ON k.confrelid = old.oid AND k.contype = 'f' AND k.conrelid <> old.oid
    AND k.conparentid = 0
JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
UNION ALL SELECT '5 partition', format('%I.%I', n.nspname, p.relname),
    CASE WHEN c.relispartition THEN format('ALTER TABLE %I.%I DETACH PARTITION %s', n.nspname, p.relname, old.name)
        -- It is tried whether that can be undone: only for that must one own the parent.
        ELSE format('ALTER TABLE %1$s NO INHERIT %2$I.%3$I; ALTER TABLE %1$s INHERIT %2$I.%3$I; ALTER TABLE %1$s NO INHERIT %2$I.%3$I',
            old.name, n.nspname, p.relname) END,
    CASE WHEN c.relispartition THEN format('ALTER TABLE %I.%I ATTACH PARTITION %s %s', n.nspname, p.relname, old.name, pg_get_expr(c.relpartbound, c.oid))
        ELSE format('ALTER TABLE %s INHERIT %I.%I', old.name, n.nspname, p.relname) END
FROM old JOIN pg_catalog.pg_class AS c ON c.oid = old.oid JOIN pg_catalog.pg_inherits AS h ON h.inhrelid = old.oid
JOIN pg_catalog.pg_class AS p ON p.oid = h.inhparent JOIN pg_catalog.pg_namespace AS n ON n.oid = p.relnamespace
UNION ALL SELECT '5 trigger', t.tgname::text, '', pg_get_triggerdef(t.oid) || CASE WHEN t.tgenabled = 'O' THEN '' ELSE
    format('; ALTER TABLE %s %s TRIGGER %I', old.name,
        CASE t.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, t.tgname) END
FROM old JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = old.oid WHERE NOT t.tgisinternal
    AND coalesce(to_jsonb(t) ->> 'tgparentid', '0') = '0'
UNION ALL SELECT '5 rule', w.rulename::text, '', pg_get_ruledef(w.oid)
FROM old JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = old.oid
-- Before version 15, a publication has whole tables only.
UNION ALL SELECT '5 publication', p.pubname::text, '',
    format('ALTER PUBLICATION %I ADD TABLE ONLY %s%s%s', p.pubname, old.name,
        CASE WHEN to_jsonb(m) ->> 'prattrs' IS NOT NULL THEN ' (' || (
            SELECT string_agg(quote_ident(a), ', ') FROM jsonb_array_elements_text(to_jsonb(t) -> 'attnames') AS a) || ')' END,
        ' WHERE (' || (to_jsonb(t) ->> 'rowfilter') || ')')
FROM old JOIN pg_catalog.pg_publication_rel AS m ON m.prrelid = old.oid
JOIN pg_catalog.pg_publication AS p ON p.oid = m.prpubid
LEFT JOIN pg_catalog.pg_publication_tables AS t ON t.pubname = p.pubname AND t.schemaname = $1 AND t.tablename = $2
UNION ALL SELECT DISTINCT '6 view', format('%I.%I', n.nspname, v.relname), '',
    format('CREATE OR REPLACE VIEW %I.%I%s AS %s', n.nspname, v.relname,
        ' WITH (' || array_to_string(v.reloptions, ', ') || ')', pg_get_viewdef(v.oid))
FROM old JOIN pg_catalog.pg_depend AS d ON d.refobjid = old.oid
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
    AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
JOIN pg_catalog.pg_rewrite AS w ON w.oid = d.objid
JOIN pg_catalog.pg_class AS v ON v.oid = w.ev_class AND v.relkind = 'v'
JOIN pg_catalog.pg_namespace AS n ON n.oid = v.relnamespace ORDER BY 1, 2
