# cmake -DFROM=file -DTO=folder -P CopyIfDifferent.cmake
#
# Replaces the file in the folder in one step, so that a process which has the old library mapped
# keeps it (`cmake -E copy` would cut it off under that process).

get_filename_component(name "${FROM}" NAME)
file(SHA256 "${FROM}" fresh)
set(present "")
if(EXISTS "${TO}/${name}")
  file(SHA256 "${TO}/${name}" present)
endif()
if(NOT fresh STREQUAL present)
  file(MAKE_DIRECTORY "${TO}")
  file(COPY_FILE "${FROM}" "${TO}/.${name}.new")
  file(RENAME "${TO}/.${name}.new" "${TO}/${name}")
endif()
