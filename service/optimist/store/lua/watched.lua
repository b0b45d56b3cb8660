-- uses: prelude units
-- keys: generators watched damaged snapshots counts marks
-- args: wants_estimates held*(unit made)

-- Answers what is known of each generator by each watched metric, all of one moment, for each {generator, label, name of
-- its newest estimate, damage, entry of its snapshot, bytes logged since, "<seq> <payload>" of the estimate}. The last is
-- '' where `held` has the name of this estimate, and wherever wants_estimates is not 1.
local has = {}
for _, one in ipairs(held) do
  has[one.unit] = one.made
end
local answer = {}
local labels = all_labels()
for g = 0, #labels > 1 and redis.call('HLEN', generators) - 1 or -1 do
  local bytes = redis.call('HGET', counts, g .. ':bytes')
  for i = 2, #labels do
    local unit = unit_of(g, labels[i])
    local made, before = unpack(redis.call('HMGET', marks, 'made_' .. unit, unit .. ':snapshot_bytes'))
    answer[#answer + 1] = {
      g, labels[i], made or '', redis.call('HGET', damaged, unit), redis.call('HGET', snapshots, unit),
      string.format('%.0f', bytes - (before or 0)),
      wants_estimates == '1' and made and made ~= has[unit] and redis.call('HGET', watched, unit) or '',
    }
  end
end
return {'ok', answer}
