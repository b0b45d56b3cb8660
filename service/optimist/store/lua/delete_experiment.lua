-- uses: units chunks
-- keys: all

-- Removes all keys of an experiment. Answers 1 if there was an experiment.
local existed = redis.call('EXISTS', config)
local labels = all_labels()
for _, g in ipairs(redis.call('HKEYS', generators)) do
  redis.call('UNLINK', log .. ':' .. g, told .. ':' .. g, previews .. ':' .. g, previews .. ':' .. g .. ':bodies',
    levels .. ':' .. g)
  for _, label in ipairs(labels) do
    local unit = unit_of(g, label)
    redis.call('UNLINK', curve .. ':' .. unit)
    drop(unit, redis.call('HGET', snapshots, unit))
    drop(unit, redis.call('HGET', uploads, unit))
  end
end
for _, label in ipairs(labels) do
  redis.call('UNLINK', by_label(fitted, label), curve .. ':' .. unit_of('mixture', label))
end
redis.call('UNLINK', curve .. ':routes')
redis.call('UNLINK', unpack(KEYS))
return {'ok', existed}
