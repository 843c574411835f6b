# smex_unite_folders(target): compiles the C++ files of each folder as one, so that what torch's
# templates are made into is made once for all of them. Call it after all sources are listed.
#
# Files still include what they use, and compile alone (SMEX_UNITE=OFF).

option(SMEX_UNITE "Compile the files of a folder that include torch's headers as one" ON)

function(smex_unite_folders target)
  if(NOT SMEX_UNITE)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source IN LISTS sources)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/csrc" OUTPUT_VARIABLE group)
    cmake_path(GET group PARENT_PATH group)
    string(REPLACE "/" "_" group "${group}")
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target}
                                PROPERTIES UNITY_GROUP "${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
