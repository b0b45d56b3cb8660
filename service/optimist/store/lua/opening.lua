-- uses: prelude
-- keys: requests counts leases decision opening_lock controls generators states returned picks terms contexts
-- args: expected_rounds expected_last expected_version expected_token lease_seconds who groups*(request size)
-- args: new_picks*(generator slice again left terms worker asked prompts record context)

-- Opens the picks of the arguments, if the experiment is as expected: the number of picks opened so far, the nonce of
-- the last one, the version ('' for any), and the state token before this script's own steps, which is `at_first`.
-- `was_changed`: whether these changed something that the caller does not expect. `who`: who opens, for the opening lock. Each
-- group is one ask, whose `size` picks follow those of the groups before it in `new_picks`. `again`: the key of the
-- returned slice that is handed out again, or ''. `left`: how many indices a pick leaves of the slice that it takes; they
-- are handed out later. A repeated ask is recognised by its entry in `requests`: it gets its first picks, and nothing is
-- opened.

-- What a pick takes of the first run that it finds, and leaves: "<start> <size>", or '' where there is nothing.
local function parts_of(pick)
  local start, size = pick.slice:match('(%d+) (%d+)')
  local left = tonumber(pick.left)
  if not start or left == 0 then
    return pick.slice, ''
  end
  return string.format('%s %.0f', start, size + left), string.format('%.0f %.0f', start + size, left)
end

-- What is left of the returned runs of a generator, as text, once a pick takes the first one; nil if it is another one.
local function left_behind(standing, g, taken)
  local first = g .. ' ' .. taken
  if standing == first then
    return ''
  end
  return standing and standing:sub(1, #first + 1) == first .. ' ' and standing:sub(#first + 2) or nil
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
    local g, again = pick.generator, pick.again
    if redis.call('HEXISTS', generators, g) == 0 then
      return {'not-found', 'there is no generator ' .. g}
    elseif redis.call('HEXISTS', states, g) == 1
      or again ~= '' and tonumber(again) >= -expected -- unless a pick of this very opening leaves it
      and not left_behind(redis.call('HGET', returned, again), g, (parts_of(pick))) then
      return {'ok', 'moved'}
    end
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
      redis.call('HSET', terms, number, pick.terms)
      last = pick.terms:match('^%S+')
      if pick.context ~= '' then
        redis.call('HSET', contexts, number, pick.context)
      end
      local taken, left = parts_of(pick)
      if pick.again ~= '' then
        local rest = left_behind(redis.call('HGET', returned, pick.again), pick.generator, taken) or ''
        left = left .. (left ~= '' and rest ~= '' and ' ' or '') .. rest
        redis.call('HDEL', returned, pick.again)
      elseif taken ~= '' then
        redis.call('HINCRBY', counts, pick.generator .. ':handed', taken:match('%d+$'))
      end
      if left ~= '' then
        redis.call('HSET', returned, '-' .. number, pick.generator .. ' ' .. left)
      end
    end
    opened[#opened + 1] = group.request
    opened[#opened + 1] = table.concat(numbers, ',')
    redis.call('HSET', requests, group.request, opened[#opened])
  end
  redis.call('HSET', counts, 'rounds', number, 'last', last, 'version', version + 1, 'state_token', new_token(version + 1),
    'lease', math.max(lease, longest or 0))
  if holder then
    redis.call('DEL', opening_lock)
  end
  return opened
end
