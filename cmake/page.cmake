# The page of web/, built into the program.
file(GLOB page_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/*)
add_custom_command(OUTPUT page_files.c
                   COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/web -DOUT=${CMAKE_CURRENT_BINARY_DIR}/page_files.c
                           -P ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake
                   DEPENDS ${page_sources} ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake VERBATIM)
target_sources(millrace_server PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/page_files.c)
