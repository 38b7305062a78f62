-- Which custom columns hold every value: all of them, but for those that a back-fill or a sweep was still to fill.
INSERT OR REPLACE INTO state (name, value)
SELECT 'filled:' || o.object, json_object('filled', (
           SELECT json_group_array(d.id) FROM custom_field_definitions AS d
           WHERE d.object_type = o.object AND d.status = 'ACTIVE' AND d.column_name IS NOT NULL
             AND NOT EXISTS (
                 SELECT 1 FROM state AS s, json_each(CASE WHEN json_valid(s.value) THEN s.value ELSE '[]' END) AS f
                 WHERE s.name = 'fill' AND json_extract(s.value, f.fullkey || '[0]') = o.object
                   AND json_extract(s.value, f.fullkey || '[1]') = d.key)))
FROM (SELECT 'contact' AS object UNION ALL SELECT 'company') AS o
WHERE NOT EXISTS (
      SELECT 1 FROM state AS s
      WHERE s.name = 'wanted_sweep:' || o.object OR s.name = 'sweep:' || o.object AND json_valid(s.value)
        AND json_extract(s.value, '$.needed'));

DELETE FROM state WHERE name = 'fill';
