-- keys: generators counts

-- Adds a generator with ordinal `g`. `chain_<g>` is "<seq> <chained digest of the log up to there>", '' at its start.
local function enrol(g, name)
  redis.call('HSET', generators, g, name)
  for _, count in ipairs({'samples', 'batches', 'seq', 'due_samples', 'due_seq', 'handed',
                          'bytes', 'snapshot_bytes', 'aside', 'aside_seq'}) do
    redis.call('HSET', counts, g .. ':' .. count, 0)
  end
  redis.call('HSET', counts, 'chain_' .. g, '0 ')
end
