-- Stands before the scripts that open picks, below the prelude.

-- Opens picks by what stands in ARGV after the first `before`: expected rounds, expected "<batches told> <version>" or
-- '' for any, lease in seconds, who opens, number of groups; request id and size of each group; generator, slice,
-- number to be handed out again and record of each pick.
local function open(before)
  local expected, standing, lease, who, groups = unpack(ARGV, before + 1, before + 5)
  expected, lease, groups = tonumber(expected), tonumber(lease), tonumber(groups)

  local function group(i)
    return ARGV[before + 4 + 2 * i], tonumber(ARGV[before + 5 + 2 * i])
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
  local rounds, told, version, longest = unpack(redis.call('HMGET', counts, 'rounds', 'told', 'version', 'lease'))
  version = version or 0
  -- With as many batches more as versions more, nothing else has changed.
  if tonumber(rounds) ~= expected or standing ~= '' and standing ~= told .. ' ' .. version then
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
  local first = before + 6 + 2 * groups
  for at = first, #ARGV, 4 do
    local g, again = ARGV[at], ARGV[at + 2]
    if redis.call('HEXISTS', generators, g) == 0 then
      return {'not-found', 'there is no generator ' .. g}
    elseif redis.call('HEXISTS', states, g) == 1 or again ~= '' and redis.call('HEXISTS', returned, again) == 0 then
      return {'ok', 'moved'}
    end
  end

  local opened = {'ok', 'opened', version + 1}
  local deadline = now() + lease
  local number, at = expected, first
  for i = 1, groups do
    local request, size = group(i)
    local numbers = {}
    for k = 1, size do
      number = number + 1
      numbers[k] = number
      local g, slice, again, record = unpack(ARGV, at, at + 3)
      redis.call('HSET', picks, number, table.concat({g, request, slice, record}, '\t'))
      redis.call('ZADD', leases, deadline, number)
      if again ~= '' then
        redis.call('HDEL', returned, again)
      elseif slice ~= '' then
        redis.call('HINCRBY', counts, g .. ':handed', slice:match('%d+$'))
      end
      at = at + 4
    end
    opened[#opened + 1] = request
    opened[#opened + 1] = table.concat(numbers, ',')
    redis.call('HSET', requests, request, opened[#opened])
  end
  redis.call('HSET', counts, 'rounds', number, 'version', version + 1, 'lease', math.max(lease, longest or 0))
  if holder then
    redis.call('DEL', turn)
  end
  return opened
end
