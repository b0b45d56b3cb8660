-- other keys: upload
-- args: field body seconds

-- Stores a piece of an upload, and lets the upload live on. A piece that is there already stays as it is.
if redis.call('EXISTS', upload) == 0 then
  return {'not-found', 'there is no such upload, or it has expired: begin it again'}
end
local standing = redis.call('HGET', upload, field)
if standing and standing ~= body then
  return {'conflict', 'this piece of the upload was sent before with other numbers'}
elseif not standing then
  redis.call('HSET', upload, field, body)
end
redis.call('EXPIRE', upload, seconds)
return {'ok'}
