-- uses: prelude
-- keys: requests counts leases decision turn controls generators states returned picks terms
-- args: expected_rounds expected_last expected_standing lease_seconds who groups*(request size)
-- args: new_picks*(generator slice again terms record)

-- Opens the picks of the arguments. The expectations are: the number of picks opened so far, the nonce of the last one,
-- and "<batches told> <version> <mark>" ('' for any). `who`: who opens, for the turn. Each group is one ask, whose
-- `size` picks follow those of the groups before it in `new_picks`. `again`: the number of the pick whose returned
-- slice is handed out again, or ''. `at_first`: the mark before this script's own steps.
local function open(at_first)
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
  local rounds, newest, told, version, longest = unpack(redis.call(
    'HMGET', counts, 'rounds', 'last', 'told', 'version', 'lease'))
  version = version or 0
  -- With as many batches more as versions more, nothing else has changed.
  if tonumber(rounds) ~= expected or (newest or '') ~= last
    or expected_standing ~= '' and expected_standing ~= table.concat({told, version, at_first}, ' ') then
    return {'ok', 'moved'}
  end
  -- `look` would have freed the leases that ran out.
  if expected_standing ~= '' and redis.call('ZCOUNT', leases, '-inf', now()) > 0 then
    return {'ok', 'moved'}
  end
  local decided, holder = unpack(redis.call('MGET', decision, turn))
  if decided or holder and holder ~= who or redis.call('HEXISTS', controls, 'stopped') == 1 then
    return {'ok', 'moved'}
  end
  for _, pick in ipairs(new_picks) do
    local g, again = pick.generator, pick.again
    if redis.call('HEXISTS', generators, g) == 0 then
      return {'not-found', 'there is no generator ' .. g}
    elseif redis.call('HEXISTS', states, g) == 1 or again ~= '' and redis.call('HEXISTS', returned, again) == 0 then
      return {'ok', 'moved'}
    end
  end

  local opened = {'ok', 'opened', version + 1, marked(version + 1)}
  local deadline = now() + lease
  local number = expected
  for _, group in ipairs(groups) do
    local numbers = {}
    for k = 1, group.size do
      number = number + 1
      numbers[k] = number
      local pick = new_picks[number - expected]
      redis.call('HSET', picks, number, table.concat({pick.generator, group.request, pick.slice, pick.record}, '\t'))
      redis.call('ZADD', leases, deadline, number)
      if pick.terms ~= '' then
        redis.call('HSET', terms, number, pick.terms)
        last = pick.terms:match('^%S+')
      end
      if pick.again ~= '' then
        redis.call('HDEL', returned, pick.again)
      elseif pick.slice ~= '' then
        redis.call('HINCRBY', counts, pick.generator .. ':handed', pick.slice:match('%d+$'))
      end
    end
    opened[#opened + 1] = group.request
    opened[#opened + 1] = table.concat(numbers, ',')
    redis.call('HSET', requests, group.request, opened[#opened])
  end
  redis.call('HSET', counts, 'rounds', number, 'last', last, 'version', version + 1, 'mark', mark,
    'lease', math.max(lease, longest or 0))
  if holder then
    redis.call('DEL', turn)
  end
  return opened
end
