WITH t AS (SELECT json_extract(coordinates, '$.size') AS size, json_extract(coordinates, '$."dram.bytes_per_cycle"') AS rate,
             total_milliseconds AS ms, json_extract(report, '$.macs') AS macs, json_extract(report, '$.lower_bound_dram_bytes') AS bytes
           FROM members JOIN points p ON point = p.digest JOIN results USING (digest)
           WHERE study = (SELECT digest FROM studies ORDER BY created DESC LIMIT 1))
SELECT rate, min(size) AS smallest, (SELECT min(ms) FROM t y WHERE y.rate = x.rate) AS best, round(sqrt(macs * rate / bytes)) AS balanced
FROM t x WHERE ms <= 1.1 * (SELECT min(ms) FROM t y WHERE y.rate = x.rate) GROUP BY rate;
