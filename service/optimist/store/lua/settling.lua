-- Stands before the script that settles picks, below those that end picks, and check and accept batches.

-- Accepts a batch for a pick. Answers {answer, 1 if it was told before, else 0, the version
-- this made and what is odd about it}.
local function settle(number, digest, rows, body, terms, channel, experiment, limit)
  local pick = redis.call('HGET', picks, number)
  if not pick then
    return recall(number, digest)
  end
  local g, record = pick:match('^(%d+)\t[^\t]*\t[^\t]*\t(.*)$')
  local found, refusal = check(g, rows, terms, record)
  if refusal then
    return refusal
  end
  local deadline = redis.call('ZSCORE', leases, number)
  local late = not deadline or tonumber(deadline) <= now()
  local answer, version, suspicion =
    accept(g, number, digest, rows, body, record, late, channel, experiment, found)
  if not release(number, pick) then
    redis.call('HDEL', returned, number)
  end
  conclude(number, digest .. '\t' .. answer, tonumber(limit))
  return {'ok', answer, 0, version, suspicion}
end
