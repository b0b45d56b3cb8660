-- keys: generators counts

-- Adds a generator with ordinal `g`. `chain_<g>` is "<seq> <chained digest of the log up to there>", '' at its start.
-- seedless: '1' if it ignores seeds (told.lua).
local function enrol(g, name, seedless)
  redis.call('HSET', generators, g, name)
  for _, count in ipairs({'samples', 'batches', 'seq', 'due_samples', 'due_seq', 'handed',
                          'bytes', 'quarantined', 'quarantined_seq'}) do
    redis.call('HSET', counts, g .. ':' .. count, 0)
  end
  redis.call('HSET', counts, 'chain_' .. g, '0 ')
  if seedless == '1' then
    redis.call('HSET', counts, g .. ':seedless', 1)
  end
end
