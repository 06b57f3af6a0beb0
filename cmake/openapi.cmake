# The description of the HTTP API, built into the program.
set(openapi_source ${CMAKE_CURRENT_SOURCE_DIR}/server/api/openapi.json)
add_custom_command(OUTPUT openapi_json.c
                   COMMAND ${CMAKE_COMMAND} -DFILE=${openapi_source} -DNAME=openapi_json -DHEADER=server/api/openapi.h
                           -DOUT=${CMAKE_CURRENT_BINARY_DIR}/openapi_json.c -P ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
                   DEPENDS ${openapi_source} ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake VERBATIM)
target_sources(millrace_server PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/openapi_json.c)
