-- uses: units chunks
-- keys: all

-- Removes all keys of an experiment. Answers 1 if there was an experiment.
local existed = redis.call('EXISTS', config)
local every = redis.call('HKEYS', generators)
for _, g in ipairs(every) do
  redis.call('UNLINK', log .. ':' .. g, told .. ':' .. g, previews .. ':' .. g, previews .. ':' .. g .. ':bodies',
    previews .. ':' .. g .. ':places', levels .. ':' .. g)
end
for _, label in ipairs(all_labels()) do
  for _, g in ipairs(every) do
    local unit = unit_of(g, label)
    redis.call('UNLINK', curve .. ':' .. unit)
    drop(unit, 'snapshot')
    drop(unit, 'upload')
  end
  redis.call('UNLINK', fitted .. ':' .. label, curve .. ':mixture:' .. label, curve .. ':table:' .. label)
end
redis.call('UNLINK', unpack(KEYS))
return {'ok', existed}
