-- keys: curve counts

-- Charts keep points of what a unit or an artefact has been: curve:<name> are lists of "<told> <size> <point>".

-- Keeps a point once `size`, a log position or a count of samples, has grown by a 32nd, so that the number of points grows
-- with its logarithm, to 400 at a million; or where it is less than before, because a generator was retired. None where
-- `point` is ''.
local function keep_point(name, size, point)
  local points = curve .. ':' .. name
  local last = redis.call('LINDEX', points, -1)
  local kept = last and tonumber(last:match('^%d+ (%d+)')) or 0
  if point ~= '' and (size >= kept * (1 + 1 / 32) or size < kept) then
    redis.call('RPUSH', points, string.format('%s %.0f %s', redis.call('HGET', counts, 'told'), size, point))
  end
end

-- Removes the newest points of which `is_void`, which takes what follows "<told> ", is true.
local function forget_points(name, is_void)
  local points = curve .. ':' .. name
  local last = redis.call('LINDEX', points, -1)
  while last and is_void(last:match('^%d+ (.*)$')) do
    redis.call('RPOP', points)
    last = redis.call('LINDEX', points, -1)
  end
end
