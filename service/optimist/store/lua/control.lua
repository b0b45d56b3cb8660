-- uses: prelude
-- keys: controls
-- args: fields*(name value)

-- Sets controls; an empty value removes one. HSET comes first: Redis refuses it, and so the script, when memory is
-- full.
for _, field in ipairs(fields) do
  if field.value ~= '' then
    redis.call('HSET', controls, field.name, field.value)
  end
end
for _, field in ipairs(fields) do
  if field.value == '' then
    redis.call('HDEL', controls, field.name)
  end
end
changed()
return {'ok'}
