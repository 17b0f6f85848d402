# What Debian has elsewhere or otherwise than /usr/local, in the trees from which cpack makes packages.
file(GLOB pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/man/man1/*.1)
if(pages)
  execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
file(GLOB folders ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/zsh)
foreach(folder ${folders})
  file(RENAME ${folder}/site-functions ${folder}/vendor-completions)
endforeach()
