-- Stands before the script that settles picks, below those that end picks and accept batches.

-- Accepts a batch for a pick. Answers {answer, 1 if it was told before, else 0 and the version this made}.
local function settle(number, digest, rows, body, channel, experiment, limit)
  local pick = redis.call('HGET', picks, number)
  if not pick then
    return recall(number, digest)
  end
  local g, record = pick:match('^(%d+)\t[^\t]*\t[^\t]*\t(.*)$')
  local deadline = redis.call('ZSCORE', leases, number)
  local late = not deadline or tonumber(deadline) <= now()
  local answer = accept(g, number, digest, rows, body, record, late, channel, experiment)
  release(number)
  redis.call('HDEL', returned, number)
  conclude(number, digest .. '\t' .. answer, tonumber(limit))
  return {'ok', answer, 0, changed()}
end
