-- uses: prelude picks
-- keys: opening_lock counts leases picks terms expired_order decision
-- keys: generators states controls estimates scoring_errors quarantined returned snapshots named_copies artefacts
-- args: held_mixture held_model held*

-- Whether `who` has the opening lock now, for `milliseconds`. One that lasts longer than that means
-- that the server's clock was set back.
local function take_opening_lock(who, milliseconds)
  if redis.call('SET', opening_lock, who, 'NX', 'PX', milliseconds) or redis.call('GET', opening_lock) == who then
    return true
  elseif redis.call('PTTL', opening_lock) <= tonumber(milliseconds) then
    return false
  end
  redis.call('SET', opening_lock, who, 'PX', milliseconds)
  return true
end

-- The fields of a hash that are not those of watched metrics, flat as HGETALL answers them.
local function of_primary(hash)
  local all, found = redis.call('HGETALL', hash), {}
  for i = 1, #all, 2 do
    if not all[i]:find(':', 1, true) then
      found[#found + 1], found[#found + 2] = all[i], all[i + 1]
    end
  end
  return found
end

-- Replaces the estimates that the caller has by ''. all: the flat contents of `estimates`. held: of each generator, by
-- ordinal, the name that put_estimate.lua gave to the caller's estimate, '' for none.
local function leave_out_held(all)
  if #held == 0 or #all == 0 then
    return
  end
  local names = {}
  for i = 1, #all, 2 do
    names[#names + 1] = 'made_' .. all[i]
  end
  for i, made in ipairs(redis.call('HMGET', counts, unpack(names))) do
    if made == held[all[2 * i - 1] + 1] then
      all[2 * i] = ''
    end
  end
end

-- What an artefact that picks are made from was made of, '' if there is none, or if its name is `held_name`.
local function read_made(artefact, held_name)
  local made = redis.call('HGET', counts, 'made_' .. artefact)
  if not made or made == held_name then
    return ''
  end
  return redis.call('HGET', artefacts, artefact) or ''
end

-- Frees the leases that ran out, then answers everything that a decision is made from. A late pick stays in `picks`, so
-- that its batch is still accepted. A deadline further off than a lease can last means that the server's clock was set
-- back. remembered: how many expired picks are remembered.
local function read_state(remembered)
  local lease = redis.call('HGET', counts, 'lease')
  if lease then
    local latest = string.format('%.6f', now() + lease)
    for _, number in ipairs(redis.call('ZRANGEBYSCORE', leases, '(' .. latest, '+inf')) do
      -- Removed first, as adding is refused while memory is full.
      redis.call('ZREM', leases, number)
      redis.call('ZADD', leases, latest, number)
    end
  end
  for _, number in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now())) do
    local pick = redis.call('HGET', picks, number)
    release(number, pick)
    hand_back(number, pick)
    queue(expired_order, tonumber(remembered), number, picks)
    changed()
  end

  local open = {}
  local leased = redis.call('ZRANGE', leases, 0, -1, 'WITHSCORES')
  for i = 1, #leased, 2 do
    local number = leased[i]
    open[#open + 1] = {number, leased[i + 1], redis.call('HGET', picks, number), redis.call('HGET', terms, number)}
  end
  local state = {redis.call('GET', decision), open}
  for i, hash in ipairs({counts, generators, states, controls, estimates, scoring_errors, quarantined, returned, snapshots,
                          named_copies}) do
    state[2 + i] = (hash == scoring_errors or hash == snapshots) and of_primary(hash) or redis.call('HGETALL', hash)
  end
  leave_out_held(state[7])
  local mixture = redis.call('HEXISTS', counts, 'mixture_growth') == 1 and read_made('mixture', held_mixture) or ''
  state[#state + 1] = mixture
  state[#state + 1] = mixture ~= '' and redis.call('HGET', artefacts, 'mixture body') or ''
  state[#state + 1] = read_made('model', held_model)
  return state
end
