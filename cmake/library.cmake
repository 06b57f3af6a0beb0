# The library as programs use it: libmillrace.so and libmillrace.a from one set of objects, the header, pkg-config.
# Only what include/millrace.h declares leaves the shared library.
include(GNUInstallDirs)

set(header ${PROJECT_SOURCE_DIR}/include/millrace.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
file(READ ${header} declared)
string(REGEX MATCHALL "mr_[a-z0-9_]+\\(" functions "${declared}")
list(REMOVE_DUPLICATES functions)
set(exported "")
foreach(function IN LISTS functions)
  string(REPLACE "(" "" function ${function})
  string(APPEND exported "        ${function};\n")
endforeach()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/millrace.map
     "MILLRACE_${PROJECT_VERSION_MAJOR} {\n    global:\n${exported}    local: *;\n};\n")

# The objects of the layers, which are compiled for a shared library too.
set(objects)
foreach(layer base quant format text cache kernels ops sample model engine)
  list(APPEND objects $<TARGET_OBJECTS:millrace_${layer}>)
endforeach()

add_library(millrace_shared SHARED ${objects})
target_link_libraries(millrace_shared PRIVATE Threads::Threads PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::JANSSON
                                              PkgConfig::NETTLE m)
target_link_options(millrace_shared PRIVATE -Wl,--version-script=${CMAKE_CURRENT_BINARY_DIR}/millrace.map -Wl,--no-undefined)
set_target_properties(millrace_shared PROPERTIES OUTPUT_NAME millrace VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

add_library(millrace_static STATIC ${objects})
set_target_properties(millrace_static PROPERTIES OUTPUT_NAME millrace)

# The prefix is found from where the file lies, so that an installed tree may be moved.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/millrace.pc.in ${CMAKE_CURRENT_BINARY_DIR}/millrace.pc @ONLY)

install(TARGETS millrace millrace_shared millrace_static)
install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/millrace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
