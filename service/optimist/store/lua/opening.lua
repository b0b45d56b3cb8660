-- uses: prelude picks
-- keys: requests counts leases decision opening_lock controls generators states picks terms contexts
-- args: expected_rounds expected_last expected_version expected_token lease_seconds who groups*(request size)
-- args: new_picks*(generator slice again left terms key worker asked prompts record context)

-- Opens the picks of the arguments, if the experiment is as expected: the number of picks opened so far, the nonce of
-- the last one, the version ('' for any), and the state token before this script's own steps, which is `at_first`.
-- `was_changed`: whether these changed something that the caller does not expect. `who`: who opens, for the opening lock. Each
-- group is one ask, whose `size` picks follow those of the groups before it in `new_picks`. `again`: 1 where a pick takes
-- the first ones of its generator's returned indices, or ''. `left`: how many indices it leaves of the run that it takes;
-- they are handed out later. A repeated ask is recognised by its entry in `requests`: it gets its first picks, and nothing is
-- opened.

-- What the new picks take, by generator: {handed: the first index that no pick has then, runs: what is returned then, from
-- `first` on}; nil where they take returned indices that are not the first ones, or others than those that come next: a
-- batch without a pick may have brought these since, or a retraction may have begun anew.
local function taken_by_all()
  local found = {}
  for _, pick in ipairs(new_picks) do
    local start, size = pick.slice:match('(%d+) (%d+)')
    if start then
      local g, left = pick.generator, tonumber(pick.left)
      start, size = tonumber(start), tonumber(size)
      found[g] = found[g] or {handed = tonumber(redis.call('HGET', counts, g .. ':handed')), first = 1, runs = returned_by(g)}
      local of = found[g]
      local runs, first = of.runs, of.first
      if pick.again == '' and start ~= of.handed then
        return nil
      elseif pick.again == '' then
        of.handed = start + size + left
        of.runs, of.first = joined({unpack(runs, first)}, left > 0 and {start + size, left} or {}), 1
      elseif runs[first] ~= start or runs[first + 1] ~= size + left then
        return nil
      elseif left > 0 then
        runs[first], runs[first + 1] = start + size, left
      else
        of.first = first + 2
      end
    end
  end
  return found
end

-- Whether a worker would have more picks than it may hand in batches for: a late one may have come since.
local function has_too_many()
  local left = {}
  for _, pick in ipairs(new_picks) do
    left[pick.worker] = (left[pick.worker] or batches_left(pick.worker) or #new_picks) - 1
    if left[pick.worker] < 0 then
      return true
    end
  end
  return false
end

local function open(at_first, was_changed)
  local expected, last, lease = tonumber(expected_rounds), expected_last, tonumber(lease_seconds)

  local repeated = {'ok', 'repeated'}
  for _, group in ipairs(groups) do
    local numbers = redis.call('HGET', requests, group.request)
    if numbers then
      repeated[#repeated + 1] = group.request
      repeated[#repeated + 1] = numbers
    end
  end
  if #repeated > 2 then
    return repeated
  end
  local rounds, newest, version, longest = unpack(redis.call('HMGET', counts, 'rounds', 'last', 'version', 'lease'))
  version = tonumber(version or 0)
  if tonumber(rounds) ~= expected or (newest or '') ~= last then
    return {'ok', 'moved'}
  end
  local is_exact, holder = expected_version ~= '', redis.call('GET', opening_lock)
  if holder and holder ~= who then
    return {'ok', 'moved'}
  end
  -- If the version has increased only by this script's own steps, nothing else has changed except that leases may have
  -- run out; these are freed when the state is read.
  if is_exact and (was_changed or tonumber(expected_version) ~= version or expected_token ~= at_first
    or redis.call('ZCOUNT', leases, '-inf', now()) > 0) then
    return {'ok', 'moved'}
  end
  if not is_exact and (redis.call('EXISTS', decision) == 1 or redis.call('HEXISTS', controls, 'stopped') == 1) then
    return {'ok', 'moved'}
  end
  for _, pick in ipairs(is_exact and {} or new_picks) do
    if redis.call('HEXISTS', generators, pick.generator) == 0 then
      return {'not-found', 'there is no generator ' .. pick.generator}
    elseif redis.call('HEXISTS', states, pick.generator) == 1 then
      return {'ok', 'moved'}
    end
  end
  local taken = taken_by_all()
  if not taken or has_too_many() then
    return {'ok', 'moved'}
  end

  local opened = {'ok', 'opened'}
  local deadline = now() + lease
  local number = expected
  for _, group in ipairs(groups) do
    local numbers = {}
    for k = 1, group.size do
      number = number + 1
      numbers[k] = number
      local pick = new_picks[number - expected]
      -- What scripts need of it, with tabs between; the record is the caller's, and last.
      redis.call('HSET', picks, number, table.concat(
        {pick.generator, group.request, pick.slice, pick.worker, pick.asked, pick.prompts, pick.record}, '\t'))
      redis.call('ZADD', leases, deadline, number)
      redis.call('HSET', terms, number, string.format('%s %.6f %s', pick.terms, now(), pick.key))
      count_for(pick.worker, 1)
      last = pick.terms:match('^%S+')
      if pick.context ~= '' then
        redis.call('HSET', contexts, number, pick.context)
      end
    end
    opened[#opened + 1] = group.request
    opened[#opened + 1] = table.concat(numbers, ',')
    redis.call('HSET', requests, group.request, opened[#opened])
  end
  for g, of in pairs(taken) do
    redis.call('HSET', counts, g .. ':handed', of.handed)
    put_returned(g, {unpack(of.runs, of.first)})
    note_change(version + 1, g)
  end
  redis.call('HSET', counts, 'rounds', number, 'last', last, 'version', version + 1, 'state_token', new_token(version + 1),
    'lease', math.max(lease, longest or 0))
  if holder then
    redis.call('DEL', opening_lock)
  end
  return opened
end
