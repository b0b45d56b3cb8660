-- keys: generators counts

-- Adds a generator with ordinal `g`.
local function enrol(g, name)
  redis.call('HSET', generators, g, name)
  for _, count in ipairs({'samples', 'batches', 'seq', 'due_samples', 'due_seq', 'handed',
                          'bytes', 'snapshot_bytes', 'aside', 'aside_seq'}) do
    redis.call('HSET', counts, g .. ':' .. count, 0)
  end
end
