-- uses: prelude picks units
-- keys: opening_lock counts leases picks terms expired_order decision
-- keys: generators states controls estimates units quarantined returned named_copies artefacts retractions acceptances
-- args: held*

-- held: the names of the estimates, mixtures and models that the caller has, whose contents are left out.

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

local is_held = {}
for _, made in ipairs(held) do
  is_held[made] = true
end

-- What is known of each generator by each of these metrics, as {generator, label, position and name of its newest
-- estimate, scoring error, position and bytes of its snapshot, payload}. Without `wants_estimates` there are no payloads.
local function read_units(among, wants_estimates)
  local found = {}
  for _, label in ipairs(among) do
    for g = 0, redis.call('HLEN', generators) - 1 do
      local unit = unit_of(g, label)
      local seq, made, note, snapshot_at, bytes = unpack(redis.call('HMGET', units, unit .. ':seq', unit .. ':made',
        unit .. ':error', unit .. ':snapshot_seq', unit .. ':snapshot_bytes'))
      local is_new = wants_estimates and made and not is_held[made]
      found[#found + 1] = {g, label, seq, made, note, snapshot_at, bytes, is_new and redis.call('HGET', estimates, unit)}
    end
  end
  return found
end

-- Name, parts and, where it is wanted, payload of an artefact; the name alone where the caller has it.
local function read_artefact(artefact, wants_payload)
  local made = redis.call('HGET', artefacts, artefact .. ':made')
  if not made or is_held[made] then
    return {made}
  end
  local parts = redis.call('HGET', artefacts, artefact .. ':parts')
  return {made, parts, wants_payload and redis.call('HGET', artefacts, artefact .. ':payload')}
end

-- Frees the leases that ran out, then answers everything that a decision is made from. A late pick stays in `picks`, so
-- that its batch is still accepted. A deadline further off than a lease can last means that the server's clock was set
-- back. remembered: how many expired picks are remembered. wants_all: whether by all metrics, or only by those that
-- decide.
local function read_state(remembered, wants_all, wants_estimates)
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
    hand_back(pick)
    queue(expired_order, tonumber(remembered), number, picks)
    changed()
  end

  local open = {}
  local leased = redis.call('ZRANGE', leases, 0, -1, 'WITHSCORES')
  for i = 1, #leased, 2 do
    local number = leased[i]
    open[#open + 1] = {number, leased[i + 1], redis.call('HGET', picks, number), redis.call('HGET', terms, number)}
  end
  local all, state = all_labels(), {redis.call('GET', decision), open}
  for i, hash in ipairs({counts, generators, states, controls, quarantined, returned, named_copies}) do
    state[2 + i] = redis.call('HGETALL', hash)
  end
  local first = all[1]
  local mixes = redis.call('HEXISTS', counts, 'mixture_growth') == 1
  state[10], state[11] = all, read_units(wants_all and all or deciding_labels(), wants_estimates)
  state[12] = mixes and read_artefact(unit_of('mixture', first), true) or {}
  state[13] = read_artefact(unit_of('model', first), false)
  state[14], state[15] = fact(unit_of('mixture', first), 'error'), fact(unit_of('routes', first), 'error')
  state[16], state[17] = redis.call('XRANGE', retractions, '-', '+'), redis.call('XRANGE', acceptances, '-', '+')
  state[18] = string.format('%.6f', now())
  return state
end
