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
  local answer, version = accept(g, number, digest, rows, body, record, late, channel, experiment)
  if not release(number, pick) then
    redis.call('HDEL', returned, number)
  end
  conclude(number, digest .. '\t' .. answer, tonumber(limit))
  return {'ok', answer, 0, version}
end
