-- Stands before the scripts that open picks, below the prelude.

-- Opens picks by what stands in ARGV after the first `before`: expected rounds, nonce of the pick that was expected to
-- be the last, expected "<batches told> <version> <mark>" or '' for any, lease in seconds, who opens, number of groups;
-- request id and size of each group; generator, slice, number to be handed out again, terms and record of each pick.
-- `at_first`: the mark before this script's own steps.
local function open(before, at_first)
  local expected, last, standing, lease, who, groups = unpack(ARGV, before + 1, before + 6)
  expected, lease, groups = tonumber(expected), tonumber(lease), tonumber(groups)

  local function group(i)
    return ARGV[before + 5 + 2 * i], tonumber(ARGV[before + 6 + 2 * i])
  end

  local repeated = {'ok', 'repeated'}
  for i = 1, groups do
    local request = group(i)
    local numbers = redis.call('HGET', requests, request)
    if numbers then
      repeated[#repeated + 1] = request
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
    or standing ~= '' and standing ~= table.concat({told, version, at_first}, ' ') then
    return {'ok', 'moved'}
  end
  -- A look would have freed the leases that ran out.
  if standing ~= '' and redis.call('ZCOUNT', leases, '-inf', now()) > 0 then
    return {'ok', 'moved'}
  end
  local decided, holder = unpack(redis.call('MGET', decision, turn))
  if decided or holder and holder ~= who or redis.call('HEXISTS', controls, 'stopped') == 1 then
    return {'ok', 'moved'}
  end
  local first = before + 7 + 2 * groups
  for at = first, #ARGV, 5 do
    local g, again = ARGV[at], ARGV[at + 2]
    if redis.call('HEXISTS', generators, g) == 0 then
      return {'not-found', 'there is no generator ' .. g}
    elseif redis.call('HEXISTS', states, g) == 1 or again ~= '' and redis.call('HEXISTS', returned, again) == 0 then
      return {'ok', 'moved'}
    end
  end

  local opened = {'ok', 'opened', version + 1, marked(version + 1)}
  local deadline = now() + lease
  local number, at = expected, first
  for i = 1, groups do
    local request, size = group(i)
    local numbers = {}
    for k = 1, size do
      number = number + 1
      numbers[k] = number
      local g, slice, again, required, record = unpack(ARGV, at, at + 4)
      redis.call('HSET', picks, number, table.concat({g, request, slice, record}, '\t'))
      redis.call('ZADD', leases, deadline, number)
      if required ~= '' then
        redis.call('HSET', terms, number, required)
        last = required:match('^%S+')
      end
      if again ~= '' then
        redis.call('HDEL', returned, again)
      elseif slice ~= '' then
        redis.call('HINCRBY', counts, g .. ':handed', slice:match('%d+$'))
      end
      at = at + 5
    end
    opened[#opened + 1] = request
    opened[#opened + 1] = table.concat(numbers, ',')
    redis.call('HSET', requests, request, opened[#opened])
  end
  redis.call('HSET', counts, 'rounds', number, 'last', last, 'version', version + 1, 'mark', mark,
    'lease', math.max(lease, longest or 0))
  if holder then
    redis.call('DEL', turn)
  end
  return opened
end
